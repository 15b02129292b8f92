from memory_sql.memory import Memory
from tests.factories import conversation
from tests.fakes import Scripted, extracted


async def test_smoke(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(4), agent_id="ada", user_id="mia", session_id="s")
    llm.then(extracted(("Mia likes tea.", "individual")))
    formed = await memory.form(agent_id="ada", session_id="s")
    assert [o.content for o in formed.observations] == ["Mia likes tea."]
