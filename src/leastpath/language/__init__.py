"""Language models: why this token, why this answer. What each word of a prompt does to its log-probability.

prompts ──► answers ──► baselines ──► rows (methods) ──► explaining (the door) ──► explanation, page
"""

from leastpath.language.baselines import NEUTRAL_TEXTS as NEUTRAL_TEXTS, Natural as Natural
from leastpath.language.explaining import explain as explain
from leastpath.language.explanation import PromptExplanation as PromptExplanation
from leastpath.language.planning import PromptPlan as PromptPlan, plan as plan

__all__ = ["NEUTRAL_TEXTS", "Natural", "PromptExplanation", "PromptPlan", "explain", "plan"]
