"""Removal: does the score follow when what is called important is taken away?"""
