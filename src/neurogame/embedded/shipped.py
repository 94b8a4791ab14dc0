"""SHA-256 of model/SHA256SUMS; written by `neurogame_bench.shipping.write_sums`, never by hand."""

SUMS_SHA256 = "1b83850ef43460bf0f687079a805b6aed8285b987a1f1c8cee91b6631c51456c"
