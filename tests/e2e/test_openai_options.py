"""What a preset may say about a model: a mistake is an error at start-up that names preset and option, no secret."""

from pathlib import Path

import pytest

from tests.e2e.control_support import failed_start
from tests.e2e.openai_support import KEY
from tests.scripted_llm import MODEL


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("", "options: base_url: missing; expected an http or https URL"),
        ("", "options: model: missing; expected a string that is not empty"),
        ("modle = 'x'", 'options: modle: unknown option; did you mean "model"?'),
        (f"api_key = '{KEY}'", 'options: api_key: unknown option; did you mean "api_key_env"?'),
        (f"api_key_env = '{KEY}!'", "options: api_key_env: expected the name of an environment variable"),
        ("base_url = 'ftp://a.example'", "options: base_url: expected an http or https URL"),
        (f"base_url = 'https://u:{KEY}@a.example/v1'", "options: base_url: expected an http or https URL"),
        (f"base_url = 'https://a.example/v1?key={KEY}'", "options: base_url: expected an http or https URL"),
        ("model = ''", 'options: model: expected a string that is not empty, not ""'),
        ("model = 3", "options: model: expected a string that is not empty, not 3"),
        ("system = 3", "options: system: expected a string, not 3"),
        ("temperature = 'hot'", 'options: temperature: expected a number, 0 or more, not "hot"'),
        ("max_rounds = 0", "options: max_rounds: expected a whole number, 1 or more, not 0"),
        ("max_rounds = true", "options: max_rounds: expected a whole number, 1 or more, not true"),
        ("context_tokens = 10", "options: context_tokens: expected a whole number, 1000 or more, not 10"),
        ("images = 'yes'", 'options: images: expected true or false, not "yes"'),
        ("tools = 1", "options: tools: expected true or false, not 1"),
    ],
)
def test_a_wrong_option_is_an_error_at_start_up_that_names_preset_and_option(
    tmp_path: Path, options: str, told: str
) -> None:
    config = tmp_path / "a2ad.toml"
    config.write_text(f"[[presets]]\nid = 'deep'\nagent = 'openai'\n[presets.options]\n{options}\n")
    says_so = failed_start(tmp_path, "--config", str(config))
    assert "preset 'deep': " in says_so
    assert told in says_so
    assert KEY not in says_so


def test_all_wrong_options_are_told_at_once(tmp_path: Path) -> None:
    config = tmp_path / "a2ad.toml"
    config.write_text(
        f"[[presets]]\nid = 'deep'\nagent = 'openai'\n[presets.options]\nmodel = '{MODEL}'\nx = 1\ntools = 1\n"
    )
    says_so = failed_start(tmp_path, "--config", str(config))
    assert all(f"options: {name}: " in says_so for name in ("base_url", "x", "tools"))
