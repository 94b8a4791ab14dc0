"""SHA-256 of model/SHA256SUMS; written by `neurogame_bench.shipping.write_sums`, never by hand."""

SUMS_SHA256 = "f661a2793ae45353ebf60474255864f897aed5c9cc8f307a411fdf01f7d82148"
