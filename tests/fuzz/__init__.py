"""Fuzzing of the request path: mutated requests over real sockets, judged against an independent reading of them."""
