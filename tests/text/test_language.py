"""Which language a conversation is in, for the languages the prompts name."""

import pytest
from hypothesis import given

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.testing import ScriptedModel, assistant, system, tool_exchange, user
from autocontext.text.language import language_of
from tests.conversations import texts

SAMPLES = {
    "Chinese": [
        "请把配置文件里的超时改成三十秒，然后重新运行测试。",
        "/src/app/main.py 第42行报错：KeyError，请检查一下原因",
    ],
    "Japanese": [
        "テストを三回実行してください。",
        "設定ファイルのタイムアウトを30秒に変更する",
        "main.py の 42 行目でエラーが出ます",
    ],
    "English": ["Please fix the failing test and tell me what was wrong with it.", "how can I run the tests"],
    "Spanish": [
        "¿Puedes revisar el fichero y decirme por qué no funciona?",
        "Gracias, está bien, pero cambia el valor por favor",
    ],
    "Korean": ["설정 파일의 시간 제한을 30초로 바꿔 주세요."],
    "Russian": ["Пожалуйста, исправь ошибку в файле main.py"],
    "German": ["Kannst du bitte die Datei prüfen? Sie ist nicht in dem Ordner."],
    "French": ["Pouvez-vous vérifier le fichier ? Il est dans le dossier avec les tests."],
    "Portuguese": ["Você não está com os dados dos usuários"],
    "Italian": ["Grazie, il file è nella cartella degli esempi, anche questo"],
}


@pytest.mark.parametrize(("language", "text"), [(name, text) for name, found in SAMPLES.items() for text in found])
def test_a_language_is_known_by_a_sentence(language: str, text: str) -> None:
    assert language_of([text]) == language


@pytest.mark.parametrize("language", SAMPLES)
def test_the_texts_together_decide(language: str) -> None:
    assert language_of(["ok", "42", *SAMPLES[language], "Error: KeyError"]) == language


def test_code_and_numbers_have_no_language() -> None:
    assert language_of(["x = 42", "", "{}"]) == "the language of the transcript"
    assert language_of([]) == "the language of the transcript"


@given(texts())
def test_any_text_gets_an_answer(text: str) -> None:
    assert language_of([text, text])


@pytest.mark.parametrize("language", ["Chinese", "Japanese", "English", "Spanish"])
def test_the_model_is_asked_to_write_in_the_user_s_language(language: str) -> None:
    model = ScriptedModel("Short.")
    memory = AutoContextMemory(AutoContextConfig(strategies=("rounds",), min_compression_token_threshold=1), model)
    memory.add_message(system("You are a careful assistant and this is all that you need to know."))
    for text in SAMPLES[language] * 2:
        memory.add_messages([user(text), *tool_exchange("read", output="The file is in the folder. " * 20)])
        memory.add_message(assistant("The tests of the module are fine with this, and it is done."))
    memory.compress_if_needed(force=True)
    assert model.requests
    assert all(request.system.endswith(f"Write in {language}.") for request in model.requests)
