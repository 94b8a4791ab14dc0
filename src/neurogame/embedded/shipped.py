"""SHA-256 of model/SHA256SUMS; written by `neurogame_bench.shipping.write_sums`, never by hand."""

SUMS_SHA256 = "33983d90fe660ae700cdb823b6eb29aacb6bfd65122067257e83ec485bf9de92"
