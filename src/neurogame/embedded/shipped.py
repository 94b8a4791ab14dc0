"""SHA-256 of model/SHA256SUMS; written by `neurogame_bench.shipping.write_sums`, never by hand."""

SUMS_SHA256 = "590ab0841904173cce1a9f78456ce3d213938fcc97fdf06eb6d15ef2d0d8ddca"
