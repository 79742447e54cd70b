"""Two choices that every explanation makes: the baseline, and which of the model's numbers is explained."""
