"""SHA-256 of model/SHA256SUMS; written by `neurogame_bench.shipping.write_sums`, never by hand."""

SUMS_SHA256 = "4b4bd0ea5a243b2b0d42f0a7228a5db0af9f584c2eca9c4d7a90ce329e451b9c"
