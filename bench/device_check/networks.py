"""The specs that the check trains: small networks on data that are bundled."""

from typing import Any

from lightning_bench.bench.spec import DataSpec, ModelSpec, Precision, Recipe, RunSpec, Scalar

CHECK_MODELS = "lightning_bench.bench.device_check.check_models"
#: What a failing model writes into its rank's log, followed by the time, just before it fails.
FAILS_AT = "bench check-device: this rank fails now, at "


def network(
    model: str, data: str = "digits", args: dict[str, Scalar] | None = None, **recipe: Any
) -> RunSpec:
    """The spec of a network, trained for two epochs unless the recipe says otherwise."""
    return RunSpec(
        model=ModelSpec(name=model, args=args or {}),
        data=DataSpec(name=data),
        recipe=Recipe(**({"epochs": 2, "batch_size": 60, "lr": 3e-3} | recipe)),
    )


def with_recipe(spec: RunSpec, **changes: Any) -> RunSpec:
    """The same with another recipe."""
    recipe = Recipe.model_validate(spec.recipe.model_dump() | changes)
    return spec.model_copy(update={"recipe": recipe})


def at_precision(spec: RunSpec, precision: Precision) -> RunSpec:
    """The same at another precision."""
    return with_recipe(spec, precision=precision)


#: One of each kind of layer: products, convolutions, batch norm, attention, recurrence. The LSTM
#: reads generated sentences, as it reads no images: those of which it learns something in time.
NETWORKS = {
    "MLP": network("mlp", args={"depth": 2, "width": 64}),
    "LeNet": network("lenet"),
    "ResNet": network("resnet-small", args={"layers": 8, "width": 8}),
    "ViT": network("vit", args={"patch": 2, "width": 32, "depth": 2, "heads": 2, "hidden": 80}),
    "LSTM": network("lstm", "entailment", args={"width": 42}),
}

#: Those that take long enough to be interrupted in the middle.
PACED = {
    "ResNet": network(f"{CHECK_MODELS}:paced_resnet", epochs=4),
    "ViT": network(f"{CHECK_MODELS}:paced_vit", epochs=4),
}

#: What goes wrong on the last rank, with the failure class that the record must then have.
FAILING = {
    "raises": (network(f"{CHECK_MODELS}:raises"), "code"),
    "is killed": (network(f"{CHECK_MODELS}:killed"), "infrastructure"),
    "is out of memory": (network(f"{CHECK_MODELS}:out_of_memory"), "out-of-memory"),
}
