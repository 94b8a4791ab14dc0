"""An explanation as a terminal, a page or a figure shows it; `explanation.summary` says what is worth showing.

terminal    coloured text                       page        one HTML file, of the parts `layer`, `matrix`,
figures     matplotlib, .png and .svg                       `network` and `trajectory`
index       pages of many pairs                 markup      what every page is made of; escapes text
"""
