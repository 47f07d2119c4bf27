"""Make a trained model take images of another size."""

from torch import nn

from lightning_bench.models.errors import ModelError


def resize_images(model: nn.Module, image_size: int) -> None:
    """Change the size of images that a model takes, in place.

    ViT interpolates its positions; Mixer and gMLP can't and say why; models of timm resize what
    timm can. Weights saved at another size are resized likewise by `load_state_dict`.
    """
    if callable(resize := getattr(model, "resize_images", None)):
        resize(image_size)
    elif callable(resize := getattr(model, "set_input_size", None)):  # timm
        resize(img_size=(image_size, image_size))
    else:
        raise ModelError(
            f"{type(model).__name__} can't be resized: make it with image_size={image_size} "
            "(a network of convolutions with a global pool takes any size as it is)"
        )
