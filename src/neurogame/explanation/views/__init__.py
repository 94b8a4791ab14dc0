"""An explanation as a terminal, a page or a figure shows it; `explanation.summary` says what is worth showing.

terminal    coloured text                       page        one HTML file; templates escape text
figures     matplotlib, .png and .svg           index       pages of many pairs
drawing     what is drawn where
"""
