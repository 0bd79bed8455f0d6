from itertools import pairwise

import pytest
from compact import (
    DecodeError,
    decode_base32,
    decode_varint,
    encode_base32,
    encode_varint,
    pack,
    unpack,
    unzigzag,
    zigzag,
)
from runs import decode_bits, decode_runs, encode_bits, encode_runs, huffman_code


@pytest.mark.parametrize(("signed", "unsigned"), [(0, 0), (-1, 1), (1, 2), (-2, 3), (2, 4), (100, 200), (-100, 199)])
def test_zigzag_keeps_small_numbers_small(signed, unsigned):
    assert zigzag(signed) == unsigned
    assert unzigzag(unsigned) == signed


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (0, b"\x00"),
        (1, b"\x01"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (16383, b"\xff\x7f"),
        (16384, b"\x80\x80\x01"),
    ],
)
def test_varints_take_seven_bits_a_byte(number, data):
    assert encode_varint(number) == data
    assert decode_varint(data) == (number, len(data))


def test_varints_have_no_sign():
    with pytest.raises(ValueError, match="from 0 on"):
        encode_varint(-1)


def test_a_varint_may_begin_in_the_middle():
    assert decode_varint(b"\xff\xac\x02\x05", 1) == (300, 3)
    assert decode_varint(b"\xff\xac\x02\x05", 3) == (5, 4)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff"])
def test_data_may_not_end_within_a_varint(data):
    with pytest.raises(DecodeError, match="ends within"):
        decode_varint(data)


@pytest.mark.parametrize("numbers", [[], [0], [5, 6, 7], [-3, 3], [1000, 1001, 999], [7] * 5])
def test_packed_numbers_come_back(numbers):
    assert unpack(pack(numbers)) == numbers


def test_packing_stores_differences():
    assert pack([100, 101, 99]) == b"\x03\xc8\x01\x02\x03"


def test_packing_takes_any_iterable():
    assert unpack(pack(range(3))) == [0, 1, 2]


def test_nothing_may_follow_packed_numbers():
    with pytest.raises(DecodeError, match="2 bytes too many"):
        unpack(pack([1, 2]) + b"\x00\x00")


def test_no_packed_number_may_be_missing():
    with pytest.raises(DecodeError, match="ends within"):
        unpack(pack([1, 2])[:-1])


@pytest.mark.parametrize(("number", "text"), [(0, "00"), (1, "11"), (31, "Z0"), (32, "101"), (1234, "16JS")])
def test_base32_ends_with_a_check_symbol(number, text):
    assert encode_base32(number) == text
    assert decode_base32(text) == number


@pytest.mark.parametrize("number", [5, 999, 10**6, 2**40, 32**5 - 1])
def test_base32_numbers_come_back(number):
    assert decode_base32(encode_base32(number)) == number


def test_base32_has_no_sign():
    with pytest.raises(ValueError, match="from 0 on"):
        encode_base32(-5)


def test_base32_symbols_can_be_grouped():
    text = encode_base32(2**40, group=4)
    assert [len(part) for part in text.split("-")] == [4, 4, 2]
    assert decode_base32(text) == 2**40


def test_base32_reads_what_people_write():
    assert decode_base32("l6-js") == decode_base32("16JS")
    assert decode_base32("oo") == 0
    assert decode_base32("I1") == 1


def test_base32_finds_a_wrong_symbol():
    with pytest.raises(DecodeError, match="check symbol"):
        decode_base32("17JS")


@pytest.mark.parametrize("text", ["", "0", "-5-"])
def test_base32_needs_a_number_and_a_check_symbol(text):
    with pytest.raises(DecodeError, match="too short"):
        decode_base32(text)


def test_base32_refuses_other_symbols():
    with pytest.raises(DecodeError, match="unknown symbol 'U'"):
        decode_base32("U0")


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("", ""),
        ("abc", "abc"),
        ("aaab", "3ab"),
        ("abbbb", "a4b"),
        ("a" * 12, "12a"),
        ("aa3", r"2a\3"),
        ("111", r"3\1"),
        ("\\", "\\\\"),
        ("  ", "2 "),
    ],
)
def test_runs_are_counted(text, encoded):
    assert encode_runs(text) == encoded
    assert decode_runs(encoded) == text


@pytest.mark.parametrize("encoded", ["3", "ab\\", "a12"])
def test_text_may_not_end_within_a_run(encoded):
    with pytest.raises(DecodeError, match="within a run"):
        decode_runs(encoded)


def test_frequent_letters_get_short_codes():
    code = huffman_code("aaaabbc")
    assert code == {"a": "1", "b": "01", "c": "00"}


def test_of_equal_letters_the_smaller_comes_first():
    assert huffman_code("ba") == {"a": "0", "b": "1"}


def test_one_letter_still_takes_a_bit():
    assert huffman_code("zzz") == {"z": "0"}
    assert huffman_code("") == {}


@pytest.mark.parametrize("text", ["", "z", "abracadabra", "the quick brown fox"])
def test_huffman_coded_text_comes_back(text):
    code = huffman_code(text)
    assert decode_bits(encode_bits(text, code), code) == text


def test_no_code_begins_another():
    codes = sorted(huffman_code("abracadabra").values())
    assert not any(later.startswith(code) for code, later in pairwise(codes))


def test_huffman_codes_are_shortest():
    assert len(encode_bits("abracadabra", huffman_code("abracadabra"))) == 23


def test_bits_may_not_end_within_a_symbol():
    with pytest.raises(DecodeError, match="within a symbol"):
        decode_bits("10", {"a": "1", "b": "01"})
