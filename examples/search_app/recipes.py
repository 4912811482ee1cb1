"""The corpus: 1,400 recipes, generated from common ingredients; the same ones every time."""

import random
from dataclasses import dataclass

MAINS = (
    "aubergine", "beetroot", "black bean", "butternut squash", "cabbage", "carrot", "cauliflower", "chickpea",
    "chicken", "cod", "courgette", "egg", "fennel", "halloumi", "kale", "lamb", "leek", "lentil", "mackerel",
    "mushroom", "onion", "parsnip", "pea", "pepper", "potato", "prawn", "pumpkin", "red cabbage", "rice", "salmon",
    "spinach", "sweetcorn", "tofu", "tomato", "turnip",
)  # fmt: skip
FORMS = {
    "soup": "Simmer {main} with onion and stock until soft, then blend until smooth.",
    "curry": "Fry {spice} in oil, add {main} and coconut milk, and simmer.",
    "pie": "Fill a pastry case with {main} and {side}, and bake until golden.",
    "salad": "Toss {main} with {side}, lemon juice and oil.",
    "stew": "Brown {main}, add {side} and stock, and let it cook slowly.",
    "gratin": "Layer {main} with cream and cheese, and bake until it bubbles.",
    "tart": "Spread {main} over puff pastry, scatter {side} on top, and bake.",
    "risotto": "Stir stock into rice, ladle by ladle, and fold in {main}.",
    "pancakes": "Stir {main} into batter and fry on both sides.",
    "skewers": "Thread {main} and {side} on skewers, brush with {spice}, and grill.",
}
SIDES = ("feta", "walnuts", "apple", "bacon", "parsley", "ginger", "olives", "barley", "lime", "mint", "honey")
SPICES = ("cumin", "paprika", "thyme", "coriander", "mustard", "saffron", "garlic", "rosemary")
MOODS = ("Quick", "Roasted", "Spicy", "Creamy", "Grandmother's", "Weeknight", "Slow", "Smoky", "Fresh", "Simple")


@dataclass(frozen=True)
class Recipe:
    """A recipe. cooked: how many people cooked it, the best sign of a good one."""

    id: str
    title: str
    body: str
    main: str
    form: str
    side: str
    cooked: int


def recipes() -> list[Recipe]:
    """Return the corpus."""
    rng = random.Random("recipes")
    found = []
    for main in MAINS:
        for form, method in FORMS.items():
            for _ in range(4):
                side, spice, other = rng.choice(SIDES), rng.choice(SPICES), rng.choice(MAINS)
                title = f"{rng.choice(MOODS)} {main} {form} with {side}"
                body = (
                    f"{method.format(main=main, side=side, spice=spice)} Season with {spice}. "
                    f"Serve with bread. Instead of {main} you can use {other}; it goes well with {other} {form} too."
                )
                if rng.random() < 0.5:  # cooks digress
                    dish = f"{rng.choice(MAINS)} {rng.choice(list(FORMS))}"
                    body += f" Anything left over goes into {dish}: nothing beats {dish}, and {dish} keeps for days."
                cooked = int(rng.lognormvariate(4.0, 1.4))
                found.append(Recipe(f"recipe-{len(found):04d}", title, body, main, form, side, cooked))
    return found
