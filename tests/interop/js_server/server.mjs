// node server.mjs PORT (0 for a free one)
//
// Agents on the official JavaScript server. The same agent is there three times: below /streaming, below /blocking with
// a card that offers no streaming, and below /protected, where the calls need the bearer token s3cr3t-of-the-remote.
// The skill of a message says what it does.
import { existsSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import { AgentCard, Message, Role, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent } from '@a2a-js/sdk';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express';

const TOKEN = 's3cr3t-of-the-remote';
// what stands in the file that the skill `parts` gives
const FILE = Buffer.from([...Array(256).keys()]);

/** A task as a skill sees it. */
class Work {
  constructor(context, bus, canceled) {
    this.bus = bus;
    this.ids = { taskId: context.taskId, contextId: context.contextId };
    this.text = context.userMessage.parts.map((part) => part.content.value).join('');
    this.continued = context.task !== undefined;
    this.canceled = canceled;
  }

  status(state, text) {
    const message = text === undefined ? undefined
      : { messageId: randomUUID(), role: 'ROLE_AGENT', parts: [{ text }], ...this.ids };
    const status = { state: `TASK_STATE_${state}`, message, timestamp: new Date().toISOString() };
    this.bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ ...this.ids, status })));
  }

  artifact(parts, more = {}) {
    const { artifactId = randomUUID(), ...flags } = more;
    const update = { ...this.ids, artifact: { artifactId, parts }, ...flags };
    this.bus.publish(AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON(update)));
  }
}

const SKILLS = {
  async echo(task) {
    task.artifact([{ text: task.text }]);
    task.status('COMPLETED');
  },
  async chunks(task) {
    task.status('WORKING');
    const words = task.text.split(' ');
    words.forEach((word, number) => {
      const lastChunk = number === words.length - 1;
      const text = lastChunk ? word : `${word} `;
      task.artifact([{ text }], { artifactId: 'words', append: number > 0, lastChunk });
    });
    task.status('COMPLETED');
  },
  // waits for the file that the prompt names
  async gate(task) {
    task.status('WORKING', 'packing');
    task.artifact([{ text: 'before ' }], { artifactId: 'words' });
    task.status('WORKING', 'at the gate');
    while (!existsSync(task.text)) {
      if (task.canceled()) return;
      await sleep(10);
    }
    task.artifact([{ text: 'after' }], { artifactId: 'words', append: true, lastChunk: true });
    task.status('COMPLETED');
  },
  async parts(task) {
    task.artifact([
      { text: 'a text' },
      { data: { count: 2, deep: [true, null] } },
      { raw: FILE.toString('base64'), filename: '../all bytes.bin', mediaType: 'application/x-bytes' },
      { url: 'https://example.org/report.pdf', filename: 'report.pdf', mediaType: 'application/pdf' },
    ]);
    task.artifact([{ text: 'another text' }]);
    task.status('COMPLETED');
  },
  // its answer stands in an artifact and in the status messages
  async twice(task) {
    task.status('WORKING', task.text);
    task.artifact([{ text: task.text }]);
    task.status('COMPLETED', task.text);
  },
  // its answer stands in the closing message alone
  async closing(task) {
    task.status('WORKING', 'thinking');
    task.status('COMPLETED', task.text);
  },
  async ask(task) {
    if (!task.continued) return task.status('INPUT_REQUIRED', 'Which city?');
    task.status('WORKING');
    task.artifact([{ text: `Sunny in ${task.text}` }]);
    task.status('COMPLETED');
  },
  // asks, says soon that it works on the answer, and does so for a while
  async study(task) {
    if (!task.continued) return SKILLS.ask(task);
    await sleep(100);
    task.artifact([{ text: 'Let me see: ' }], { artifactId: 'words' });
    task.status('WORKING', 'studying');
    await sleep(1000);
    task.artifact([{ text: `sunny in ${task.text}` }], { artifactId: 'words', append: true, lastChunk: true });
    task.status('COMPLETED');
  },
  // asks, and thinks for a while about the answer before it says anything
  async ponder(task) {
    if (task.continued) await sleep(1500);
    await SKILLS.ask(task);
  },
  async login(task) {
    if (!task.continued) return task.status('AUTH_REQUIRED', 'Log in first');
    task.status('WORKING');
    task.artifact([{ text: `Logged in as ${task.text}` }]);
    task.status('COMPLETED');
  },
  async fail(task) {
    task.artifact([{ text: 'half of it' }]);
    task.status('FAILED', 'the disk is full');
  },
  async reject(task) {
    task.status('REJECTED', 'not my business');
  },
  async crash() {
    throw new Error('the agent broke');
  },
};

class Executor {
  canceled = new Set();
  contexts = new Map();

  async execute(context, bus) {
    const { taskId, contextId, userMessage } = context;
    this.contexts.set(taskId, contextId);
    const skill = userMessage.metadata?.skill ?? 'echo';
    const answer = {
      message: [{ text: `You said ${userMessage.parts[0].content.value}` }],
      context: [{ data: { contextId: userMessage.contextId, metadata: userMessage.metadata } }],
    }[skill];
    if (answer !== undefined) {
      const message = { messageId: randomUUID(), role: 'ROLE_AGENT', contextId, parts: answer };
      bus.publish(AgentEvent.message(Message.fromJSON(message)));
    } else {
      // the server wants a task first, also where a message continues one; its own samples give it as it was
      const submitted = { id: taskId, contextId, status: { state: 'TASK_STATE_SUBMITTED' } };
      bus.publish(AgentEvent.task(context.task ?? { ...Task.fromJSON(submitted), history: [userMessage] }));
      const work = new Work(context, bus, () => this.canceled.has(taskId));
      await SKILLS[skill](work);
    }
  }

  async cancelTask(taskId, bus) {
    this.canceled.add(taskId);
    const contextId = this.contexts.get(taskId);
    const status = { state: 'TASK_STATE_CANCELED', timestamp: new Date().toISOString() };
    bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ taskId, contextId, status })));
  }
}

function agent(app, base, name) {
  const skills = [...Object.keys(SKILLS), 'message', 'context'];
  const card = AgentCard.fromJSON({
    name: 'JavaScript agent',
    description: 'Does what the skill says',
    version: '3.2.1',
    capabilities: { streaming: name !== 'blocking' },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: skills.map((id) => ({ id, name: id, description: `The skill ${id}`, tags: [id] })),
    supportedInterfaces: [{ url: `${base}/${name}`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
  });
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Executor());
  app.use(`/${name}/.well-known/agent-card.json`, agentCardHandler({ agentCardProvider: requestHandler }));
  if (name === 'protected') {
    app.use(`/${name}`, (request, response, next) => {
      if (request.headers.authorization === `Bearer ${TOKEN}`) next();
      else response.status(401).json({ error: `not with ${request.headers.authorization ?? 'none'}` });
    });
  }
  app.use(`/${name}`, jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
}

const app = express();
const server = app.listen(Number(process.argv[2]), '127.0.0.1', () => {
  const base = `http://127.0.0.1:${server.address().port}`;
  for (const name of ['streaming', 'blocking', 'protected']) agent(app, base, name);
  console.log(`listening on ${base}`);
});
