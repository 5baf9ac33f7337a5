// Questions to the server that this page came from; answers are JSON or numbers.

import { say } from "./words.js";

async function ask(name, question) {
  const asked = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) };
  const answer = await fetch(`/api/${name}`, asked).catch(() => {
    throw new Error(say("noServer"));
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
