// Questions to the server that this page came from; answers are JSON or numbers.

async function ask(name, question) {
  const answer = await fetch(`/api/${name}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question),
  });
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer;
}

export async function askJson(name, question = {}) {
  return (await ask(name, question)).json();
}

export async function askBytes(name, question) {
  return (await ask(name, question)).arrayBuffer();
}

export async function askNumbers(name, question) {
  return new Float32Array(await askBytes(name, question));
}
