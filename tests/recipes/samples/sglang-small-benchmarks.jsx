/* Figures of the file beside this one. */
export const benchmarks = [
  {
    match: { hw: "h200", variant: "27b", quant: "fp8", strategy: "low-latency", nodes: "single" },
    sglang_version: "0.5.16",
    speed: [
      { workload: { dataset: "random", isl: 8192, osl: 1024, max_concurrency: 16 },
        ttft_ms: 734, tpot_ms: 12.58, tokens_per_sec_per_gpu: 9895 },
      { workload: { dataset: "random", isl: 8192, osl: 1024, max_concurrency: 1 },
        ttft_ms: 487, tpot_ms: 4.3, tokens_per_sec_per_gpu: 1884 },
    ],
  },
];
