"""SHA-256 of model/SHA256SUMS; written by `embedded.write_sums`, never by hand."""

SUMS_SHA256 = "b4beac0bd42bad47ac810f281c26352149f71369de401d4dbc4f60f482a4c785"
