from tests.kernels.conv.conv_calls import *
from pykernels.forcing import force
from pykernels.plans.conv.select import ConvChoice
import pytest
@pytest.mark.gpu
@pytest.mark.parametrize("body", ("winograd/2","winograd/4"))
def test_a(dev, body):
    calls = ConvCalls(dev)
    for s in (Sizes((6,5),c=3,o=4,padding=(1,1,1,1)), Sizes((8,8),c=8,o=9,padding=(1,1,1,1)),Sizes((9,7),c=5,o=1,padding=(0,2,3,0),layout="NHWC")):
        calls.add(s)
        calls.add(s, bias=F32, residual=F16, activation="relu", scale=0.5)
        calls.add(s, "conv2d_backward_input")
        calls.add(s, kinds=KINDS[1])
    with force(dev, ConvChoice(body)):
        calls.check(body)
    print({n for n,k in dev._context.pipelines._pipelines})
