"""Prompts with a known cause: an answer, what it is compared with, and the words that make the difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Sort = Literal["facts", "indirect object", "agreement", "greater than", "sentiment"]
Half = Literal["development", "reporting"]


@dataclass(frozen=True)
class Case:
    """A prompt, an answer and its foil, and the words any of which counts as the cause."""

    sort: Sort
    prompt: str
    answer: str
    foil: str
    causes: tuple[str, ...]
    half: Half = "development"

    @property
    def key(self) -> str:
        """A name for files."""
        return "".join(sign if sign.isalnum() else "-" for sign in f"{self.prompt}-{self.answer}-{self.foil}")[-120:]


# The cause is the word that a reader would name: exchange it, and the foil is right.
FACTS = """
The capital of France is | Paris | Rome | France
The capital of Italy is | Rome | Paris | Italy
The capital of Germany is | Berlin | Paris | Germany
The capital of Japan is | Tokyo | London | Japan
The capital city of Spain is called | Madrid | Berlin | Spain
The Eiffel Tower is in the city of | Paris | London | Eiffel Tower
The Colosseum stands in the city of | Rome | Paris | Colosseum
The language that people speak in Brazil is | Portuguese | French | Brazil
The language that people speak in Germany is | German | Spanish | Germany
The largest planet of the solar system is | Jupiter | Mars | largest
The chemical symbol for water is | H | C | water
The opposite of hot is | cold | warm | hot
The opposite of small is | large | small | opposite
The opposite of black is | white | red | black
The colour of fresh grass is | green | blue | grass
The color of the clear sky is | blue | green | sky
A baby dog is called a | puppy | kitten | dog
A baby cat is called a | kitten | puppy | cat
The first president of the United States was George | Washington | Lincoln | George
Shakespeare wrote the play Romeo and | Juliet | Rome | Romeo
"""
OBJECTS = """
When Mary and John went to the store, John gave a drink to | Mary | John | John Mary
When Anna and Tom went to the park, Tom gave the ball to | Anna | Tom | Tom Anna
When Paul and Lisa sat in the garden, Lisa handed the book to | Paul | Lisa | Lisa Paul
After Sarah and Peter had dinner, Peter passed the salt to | Sarah | Peter | Peter Sarah
When Mark and Emma met at school, Emma gave a letter to | Mark | Emma | Emma Mark
While Kate and James were at work, James sent a message to | Kate | James | James Kate
When Alice and Bob played cards, Bob gave the money to | Alice | Bob | Bob Alice
Then David and Susan went to the office, and Susan gave a pen to | David | Susan | Susan David
When Jack and Maria walked home, Maria told a story to | Jack | Maria | Maria Jack
After George and Helen left the house, Helen threw the keys to | George | Helen | Helen George
When Laura and Simon were on the train, Simon offered a seat to | Laura | Simon | Simon Laura
When Daniel and Rachel cooked lunch, Rachel served the soup to | Daniel | Rachel | Rachel Daniel
When Jane and Robert opened the shop, Robert showed the list to | Jane | Robert | Robert Jane
"""
AGREEMENT = """
The key to the old wooden cabinets | is | are | key
The keys to the old wooden cabinet | are | is | keys
The boy who talked to the teachers | was | were | boy
The boys who talked to the teacher | were | was | boys
The picture of the three children | is | are | picture
The pictures of the little child | are | is | pictures
The dog near the parked cars | is | are | dog
The dogs near the parked car | are | is | dogs
The book on the wooden shelves | is | are | book
The books on the wooden shelf | are | is | books
The teacher of the young students | has | have | teacher
The teachers of the young student | have | has | teachers
The label on the bottles | was | were | label
The labels on the bottle | were | was | labels
"""
YEARS = """
The war lasted from the year 1732 to the year 17 | 5 | 1 | 1732
The war lasted from the year 1845 to the year 18 | 6 | 2 | 1845
The reign lasted from the year 1661 to the year 16 | 8 | 3 | 1661
The project ran from the year 1953 to the year 19 | 7 | 2 | 1953
The journey went from the year 1874 to the year 18 | 9 | 3 | 1874
The study ran from the year 1964 to the year 19 | 8 | 2 | 1964
The exhibition was open from the year 1920 to the year 19 | 3 | 0 | 1920
The dispute lasted from the year 1756 to the year 17 | 7 | 1 | 1756
The siege lasted from the year 1543 to the year 15 | 6 | 1 | 1543
The building was used from the year 1886 to the year 18 | 9 | 2 | 1886
"""
SENTIMENT = """
This movie was wonderful and I really | loved | hated | wonderful
This movie was terrible and I really | hated | loved | terrible
The food was delicious, so the meal was very | good | bad | delicious
The food was disgusting, so the meal was very | bad | good | disgusting
The service was awful, and in the end we felt | disappointed | happy | awful
She smiled because the news was so | good | bad | smiled
She cried because the news was so | bad | good | cried
He won the game and felt very | happy | sad | won
He lost the game and felt very | sad | happy | lost
The actress said that | she | he | actress
My brother told me that | he | she | brother
The queen put on | her | his | queen
The king put on | his | her | king
It was freezing outside, and everybody felt | cold | hot | freezing
"""
TABLES: dict[Sort, str] = {
    "facts": FACTS,
    "indirect object": OBJECTS,
    "agreement": AGREEMENT,
    "greater than": YEARS,
    "sentiment": SENTIMENT,
}


def all_cases() -> list[Case]:
    """Every prompt, sorts in turn; of each sort the first, third, … are for development, the others for reporting.

    Example:
        >>> all_cases()[0].causes
        ('France',)
    """
    cases: list[tuple[int, Case]] = []
    for sort, table in TABLES.items():
        for k, line in enumerate(table.strip().splitlines()):
            prompt, answer, foil, causes = (part.strip() for part in line.split("|"))
            half: Half = "reporting" if k % 2 else "development"
            cases.append((k, Case(sort, prompt, answer, foil, tuple(causes.split()), half)))
    return [case for _, case in sorted(cases, key=lambda pair: pair[0])]
