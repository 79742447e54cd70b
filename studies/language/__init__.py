"""Language models: which method, from which start, finds the word that is known to be the cause?"""
