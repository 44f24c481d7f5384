// Made for tests, in the form of the cookbook's files: comments, template strings, commas before the end.
export const config = {
  modelName: "Small",
  supportedHardware: ["h200", "b200"],
  modelNames: {
    "27b|bf16": "Org/Small-27B", // the base
    "27b|fp8": "Org/Small-27B-FP8",
  },
  curl: `curl http://{{CURL_HOST}}/v1 \\
-d '{ "model": "{{MODEL_NAME}}" }'`,
  numPromptsByConc: { 1: 8, 16: 64 },
  github: { cookbookModel: "org/small" },
  cells: [
    {
      match: { hw: "h200", variant: "27b", quant: "fp8", strategy: "low-latency", nodes: "single" },
      verified: true,
      env: ["SGLANG_ENABLE_OVERLAP_PLAN_STREAM=1"],
      flags: [
        "--model-path {{MODEL_NAME}}",
        "--tp 2",
        "--speculative-algorithm EAGLE",
        "--speculative-num-steps 3",
        "--speculative-eagle-topk 1",
        "--speculative-num-draft-tokens 4",
        "--mem-fraction-static 0.8",
        "--host {{HOST_IP}}",
        "--port {{PORT}}",
      ],
    },
    {
      match: { hw: "h200", variant: "27b", quant: "bf16", strategy: "high-throughput", nodes: "single" },
      verified: true, env: [],
      flags: ["--model-path {{MODEL_NAME}}", "--flag-of-tomorrow 3"],
      warning: "hot",
    },
    {
      match: { hw: "b200", variant: "27b", quant: "fp8", strategy: "balanced", nodes: "single" },
      verified: false, env: [], flags: ["--model-path {{MODEL_NAME}}"],
    },
    {
      match: { hw: "b200", variant: "27b", quant: "fp8", strategy: "balanced", nodes: "multi-2" },
      verified: true, env: [], flags: ["--nnodes 2"],
    },
  ],
};
