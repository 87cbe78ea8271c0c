"""What the three models learn from, made from a seed: film reviews with a feeling, and dates in words with their ISO form.
Python alone."""
import datetime
import random

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]   # their ids are their places
PAD, UNKNOWN, START, END = range(4)

# ------------------------------------------------------------------------------------------------ reviews

THINGS = ("the film", "the story", "the acting", "the music", "the ending", "the plot", "the dialogue", "the cast", "the camera",
          "the first hour", "the last scene")
GOOD = ("wonderful", "brilliant", "moving", "clever", "funny", "charming", "gripping", "beautiful", "fresh", "honest",
        "delightful", "superb")
BAD = ("dull", "boring", "weak", "clumsy", "awful", "tedious", "shallow", "noisy", "forgettable", "messy", "stale", "dreadful")
DEGREES = ("", "", "very ", "rather ", "truly ", "quite ")
ASIDES = ("i saw it on a rainy evening", "we watched it with friends", "it runs for two hours", "my sister chose it",
          "the cinema was full", "it was late", "i had read the book")
LABELS = ("negative", "positive")


def clause(rng, feeling):
    """One statement; its words may say the opposite of what it means."""
    same, other = (GOOD, BAD) if feeling else (BAD, GOOD)
    thing, degree = rng.choice(THINGS), rng.choice(DEGREES)
    return rng.choice((
        f"{thing} was {degree}{rng.choice(same)}", f"i found {thing} {degree}{rng.choice(same)}",
        f"{thing} was {rng.choice(same)} and {rng.choice(same)}", f"{thing} was not {degree}{rng.choice(other)}",
        f"{thing} was never {rng.choice(other)}", f"{thing} was anything but {rng.choice(other)}",
        f"nothing about {thing} was {rng.choice(other)}"))


def review(rng):
    """A text, and 1 where it is positive: what counts is the main clause, behind a but and not behind an although."""
    feeling = rng.random() < 0.5
    text = rng.choice((
        lambda: clause(rng, feeling), lambda: f"{clause(rng, feeling)} and {clause(rng, feeling)}",
        lambda: f"{clause(rng, not feeling)} but {clause(rng, feeling)}",
        lambda: f"although {clause(rng, not feeling)} , {clause(rng, feeling)}",
        lambda: f"{clause(rng, feeling)} although {clause(rng, not feeling)}"))()
    if rng.random() < 0.4:
        aside = rng.choice(ASIDES)
        text = f"{aside} . {text}" if rng.random() < 0.5 else f"{text} . {aside}"
    return text, int(feeling)


# ------------------------------------------------------------------------------------------------ dates

MONTHS = ("january february march april may june july august september october november december").split()
ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen").split()
TENS = ("zero ten twenty thirty forty fifty sixty seventy eighty ninety").split()
ORDINALS = ("zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
            "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth").split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
FIRST_DAY, LAST_DAY = datetime.date(1800, 1, 1), datetime.date(2099, 12, 31)


def cardinal(n):
    if n < 20:
        return ONES[n]
    return TENS[n // 10] + (" " + ONES[n % 10] if n % 10 else "")


def ordinal(n):
    if n <= 20:
        return ORDINALS[n]
    return "thirtieth" if n == 30 else f"{TENS[n // 10]} {ORDINALS[n % 10]}"


def year_in_words(rng, year):
    century, rest = divmod(year, 100)
    if 2000 <= year < 2010 or (century == 20 and rng.random() < 0.4):
        return "two thousand" + (rng.choice((" ", " and ")) + cardinal(rest) if rest else "")
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def date(rng):
    """The words and the ISO form."""
    day = FIRST_DAY + datetime.timedelta(days=rng.randrange((LAST_DAY - FIRST_DAY).days + 1))
    number, month, year = ordinal(day.day), MONTHS[day.month - 1], year_in_words(rng, day.year)
    words = rng.choice((f"the {number} of {month} {year}", f"{month} the {number} {year}", f"the {number} of {month} {year}",
                        f"{number} {month} {year}", f"in {year} on the {number} of {month}"))
    if rng.random() < 0.25:
        words = f"{WEEKDAYS[day.weekday()]} {words}"
    return words, day.isoformat()


# ------------------------------------------------------------------------------------------------ words and ids

def samples(make, seed, count, without=()):
    """`count` different samples, none of which is among `without`."""
    rng, found = random.Random(seed), {}
    while len(found) < count:
        text, answer = make(rng)
        if text not in without:
            found[text] = answer
    return list(found.items())


def vocabulary(texts, further=()):
    """Pieces as WordPiece has them: whole words, and continuations with ## before them."""
    return SPECIAL + sorted({word for text in texts for word in text.split()}) + list(further)


def encode(pieces, text):
    """As the tokenizer in the GGUF file does with words that are pieces."""
    ids = {piece: number for number, piece in enumerate(pieces)}
    return [START] + [ids.get(word, UNKNOWN) for word in text.split()] + [END]


ISO_PIECES = ["1", "2"] + ["##" + character for character in "0123456789-"]   # a year begins with 1 or 2


def encode_iso(pieces, iso):
    """What the decoder says: one piece for each character, then END."""
    ids = {piece: number for number, piece in enumerate(pieces)}
    return [ids[iso[0]]] + [ids["##" + character] for character in iso[1:]] + [END]
