"""SHA-256 of model/SHA256SUMS; written by `embedded.write_sums`, never by hand."""

SUMS_SHA256 = "2e45ff3b4604daabe3335ab969cb1114f84cf2bd1b24ce721b0359c7c0078ff2"
