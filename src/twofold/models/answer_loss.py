"""What encoder-decoders share: what the decoder reads in training, the loss of an answer, and the names of outputs."""

from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel


def read_while_taught(labels: Tensor, config: Any) -> Tensor:
    """What a decoder reads while it is taught `labels`: the start token, then all of them but the last."""
    for name in ("decoder_start_token_id", "pad_token_id"):
        if getattr(config, name) is None:
            raise ValueError(f"{name} must be set where labels come without decoder_input_ids, got None")
    shifted = labels.roll(1, dims=-1)
    shifted[:, 0] = config.decoder_start_token_id
    return shifted.masked_fill(shifted == -100, config.pad_token_id)


def decoder_reads(model: Any, given: Tensor | None, embedded: Tensor | None, labels: Tensor | None) -> Tensor | None:
    """The tokens that a decoder reads: those given, or else the labels shifted by one; None where it has vectors."""
    if given is not None or embedded is not None:
        return given
    if labels is None:
        raise ValueError("give decoder_input_ids, decoder_inputs_embeds or labels: the decoder has nothing to read")
    return model.prepare_decoder_input_ids_from_labels(labels)


def answer_loss(
    model: PreTrainedModel, logits: Tensor, labels: Tensor, smoothing: float = 0.0, count: Any = None
) -> Tensor:
    """Cross-entropy of logits (B, T, vocabulary) with labels (B, T), which stand where they are predicted already.

    Args:
        smoothing: how much of every label is spread evenly over the vocabulary, so that no logit gains by growing for
            ever. transformers' losses cannot, so what is smoothed does not ask `model.loss_function`. (As an argument
            of a model it has to have a short name: Trainer takes whatever is called label... for labels.)
        count: what the sum over tokens is divided by; the labels that are not -100 unless given.
    """
    vocabulary = logits.shape[-1]
    if not smoothing:
        shifted = labels.contiguous()
        return model.loss_function(logits, None, vocabulary, num_items_in_batch=count, shift_labels=shifted)
    scores, truth = logits.float().reshape(-1, vocabulary), labels.reshape(-1)
    if count is None:
        return cross_entropy(scores, truth, label_smoothing=smoothing)
    return cross_entropy(scores, truth, label_smoothing=smoothing, reduction="sum") / count


def outputs_of_both(encoded: Any, decoded: Any) -> dict[str, Any]:
    """The outputs of encoder and decoder by the names of transformers' Seq2Seq outputs."""
    return {
        "past_key_values": decoded.past_key_values,
        "decoder_hidden_states": decoded.hidden_states,
        "decoder_attentions": decoded.attentions,
        "cross_attentions": decoded.cross_attentions,
        "encoder_last_hidden_state": encoded.last_hidden_state,
        "encoder_hidden_states": encoded.hidden_states,
        "encoder_attentions": getattr(encoded, "attentions", None),
    }
