"""Who answers: people at the page, and a program that knows the labels."""
