"""Pages to choose from: a report, several beside each other, or a search, as one HTML file that loads nothing.

Python says what is shown, as JSON, with the figures as reports and searches have them; the scripts in ``assets`` draw
it in the browser, at the width of whoever looks. ``main.js`` begins.
"""
