"""The networks of the zoo, with the numbers of parameters that were published of them."""
from typing import Callable, NamedTuple, Union

from .classic import densenet, linknet, unet, vgg
from .inception import googlenet, inception_resnet_v2, inception_v3, inception_v4, xception
from .mobile import (V1, V2_BASE, V2_L, V2_M, V2_S, V3_LARGE, V3_SMALL, efficientnet, mobilenet_v1, mobilenet_v2, mobilenet_v3,
                     ssd_mobilenet)
from .nasnet import nasnet
from .net import Net
from .resnet import plain, rcnn, resnest, resnet, resnet_v2
from .transformer import bert, distilbert, vit


class Entry(NamedTuple):
    build: Callable[[], Net]
    published: Union[int, float]  # parameters; a float: only so many millions, to a tenth, are known
    keras: bool = False           # counted as Keras does, with the means and variances of the normalisations


ZOO = {
    "resnet18": Entry(lambda: resnet("resnet18", (2, 2, 2, 2), plain), 11689512),
    "resnet34": Entry(lambda: resnet("resnet34", (3, 4, 6, 3), plain), 21797672),
    "resnet50": Entry(lambda: resnet("resnet50", (3, 4, 6, 3)), 25557032),
    "resnet101": Entry(lambda: resnet("resnet101", (3, 4, 23, 3)), 44549160),
    "resnet152": Entry(lambda: resnet("resnet152", (3, 8, 36, 3)), 60192808),
    "resnet50_v2": Entry(lambda: resnet_v2("resnet50_v2", (3, 4, 6, 3)), 25613800, True),
    "resnet101_v2": Entry(lambda: resnet_v2("resnet101_v2", (3, 4, 23, 3)), 44675560, True),
    "resnet152_v2": Entry(lambda: resnet_v2("resnet152_v2", (3, 8, 36, 3)), 60380648, True),
    "resnest50": Entry(lambda: resnest("resnest50", (3, 4, 6, 3), 224, 32), 27483240),
    "resnest101": Entry(lambda: resnest("resnest101", (3, 4, 23, 3), 256, 64), 48275016),
    "resnest200": Entry(lambda: resnest("resnest200", (3, 24, 36, 3), 320, 64), 70201544),
    "resnest269": Entry(lambda: resnest("resnest269", (3, 30, 48, 8), 416, 64), 110929480),
    "rcnn": Entry(rcnn, 27446351),
    "mobilenet_v1": Entry(mobilenet_v1, 4253864, True),
    "mobilenet_v2": Entry(mobilenet_v2, 3504872),
    "mobilenet_v3_small": Entry(lambda: mobilenet_v3("mobilenet_v3_small", V3_SMALL, 576, 1024), 2542856),
    "mobilenet_v3_large": Entry(lambda: mobilenet_v3("mobilenet_v3_large", V3_LARGE, 960, 1280), 5483032),
    "ssd_mobilenet": Entry(ssd_mobilenet, 6.8),
    "vgg16": Entry(lambda: vgg("vgg16", (2, 2, 3, 3, 3)), 138357544),
    "vgg19": Entry(lambda: vgg("vgg19", (2, 2, 4, 4, 4)), 143667240),
    "densenet121": Entry(lambda: densenet("densenet121", (6, 12, 24, 16)), 7978856),
    "densenet161": Entry(lambda: densenet("densenet161", (6, 12, 36, 24), 48), 28681000),
    "densenet169": Entry(lambda: densenet("densenet169", (6, 12, 32, 32)), 14149480),
    "densenet201": Entry(lambda: densenet("densenet201", (6, 12, 48, 32)), 20013928),
    "googlenet": Entry(googlenet, 6998552),
    "inception_v3": Entry(inception_v3, 23834568),
    "inception_v4": Entry(inception_v4, 42679816),
    "inception_resnet_v2": Entry(inception_resnet_v2, 55843464),
    "xception": Entry(xception, 22910480, True),
    "nasnet_mobile": Entry(lambda: nasnet("nasnet_mobile", 224, 1056, 4, 32, False), 5326716, True),
    "nasnet_large": Entry(lambda: nasnet("nasnet_large", 331, 4032, 6, 96, True), 88949818, True),
    "efficientnet_b0": Entry(lambda: efficientnet("efficientnet_b0", V1, 224), 5288548),
    "efficientnet_b1": Entry(lambda: efficientnet("efficientnet_b1", V1, 240, deeper=1.1), 7794184),
    "efficientnet_b2": Entry(lambda: efficientnet("efficientnet_b2", V1, 260, wider=1.1, deeper=1.2), 9109994),
    "efficientnet_b3": Entry(lambda: efficientnet("efficientnet_b3", V1, 300, wider=1.2, deeper=1.4), 12233232),
    "efficientnet_b4": Entry(lambda: efficientnet("efficientnet_b4", V1, 380, wider=1.4, deeper=1.8), 19341616),
    "efficientnet_b5": Entry(lambda: efficientnet("efficientnet_b5", V1, 456, wider=1.6, deeper=2.2), 30389784),
    "efficientnet_b6": Entry(lambda: efficientnet("efficientnet_b6", V1, 528, wider=1.8, deeper=2.6), 43040704),
    "efficientnet_b7": Entry(lambda: efficientnet("efficientnet_b7", V1, 600, wider=2.0, deeper=3.1), 66347960),
    "efficientnet_v2_b0": Entry(lambda: efficientnet("efficientnet_v2_b0", V2_BASE, 224), 7139704),
    "efficientnet_v2_b1": Entry(lambda: efficientnet("efficientnet_v2_b1", V2_BASE, 240, deeper=1.1), 8141052),
    "efficientnet_v2_b2": Entry(lambda: efficientnet("efficientnet_v2_b2", V2_BASE, 260, wider=1.1, deeper=1.2), 10096086),
    "efficientnet_v2_b3": Entry(lambda: efficientnet("efficientnet_v2_b3", V2_BASE, 300, wider=1.2, deeper=1.4, least=0), 14358406),
    "efficientnet_v2_s": Entry(lambda: efficientnet("efficientnet_v2_s", V2_S, 384, stem=24), 21458488),
    "efficientnet_v2_m": Entry(lambda: efficientnet("efficientnet_v2_m", V2_M, 480, stem=24), 54139356),
    "efficientnet_v2_l": Entry(lambda: efficientnet("efficientnet_v2_l", V2_L, 480, stem=32), 118515272),
    "unet": Entry(unet, 31037698),
    "linknet": Entry(linknet, 11.5),
    "bert_base": Entry(lambda: bert("bert_base", 12, 768, 12), 108890112),
    "bert_base_128": Entry(lambda: bert("bert_base_128", 12, 768, 12, 128), 108890112),
    "bert_large": Entry(lambda: bert("bert_large", 24, 1024, 16), 334090240),
    "minilm": Entry(lambda: bert("minilm", 6, 384, 12), 22564608),
    "minilm_128": Entry(lambda: bert("minilm_128", 6, 384, 12, 128), 22564608),
    "distilbert": Entry(distilbert, 66362880),
    "vit_b_16": Entry(lambda: vit("vit_b_16"), 86567656),
}
