// node client.mjs COMMAND URL [REQUEST]
//
// One call of the official JavaScript client on the agent whose card is below URL. REQUEST is the request's JSON as it
// stands in A2A. Every result is printed as a line of JSON; a refusal as {"error": {"name", "message", "reason"}}.
// With A2A_TOKEN in the environment the client authenticates with it.
import {
  AgentCard,
  CancelTaskRequest,
  GetTaskRequest,
  ListTasksRequest,
  ListTasksResponse,
  Message,
  SendMessageRequest,
  StreamResponse,
  SubscribeToTaskRequest,
  Task,
} from '@a2a-js/sdk';
import {
  AgentCardResolver,
  ClientFactory,
  ClientFactoryOptions,
  JsonRpcTransportFactory,
  createAuthenticatingFetchWithRetry,
} from '@a2a-js/sdk/client';

const [command, url, request = '{}'] = process.argv.slice(2);
const params = JSON.parse(request);
// a full card URL is taken as it is; below anything else the client looks for the well-known path
const path = url.endsWith('/agent-card.json') ? '' : undefined;
const print = (line) => process.stdout.write(JSON.stringify(line) + '\n');

async function connect() {
  const token = process.env.A2A_TOKEN;
  let fetchImpl = fetch;
  if (token) {
    fetchImpl = createAuthenticatingFetchWithRetry(fetch, {
      headers: async () => ({ Authorization: `Bearer ${token}` }),
      shouldRetryWithHeaders: async () => undefined,
    });
  }
  const transports = [new JsonRpcTransportFactory({ fetchImpl })];
  const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports }));
  return factory.createFromUrl(url, path);
}

async function* call(client) {
  switch (command) {
    case 'card': // as resolved, and as the extended card
      yield AgentCard.toJSON(await AgentCardResolver.default.resolve(url, path));
      yield AgentCard.toJSON(await client.getAgentCard());
      break;
    case 'send': {
      const answer = await client.sendMessage(SendMessageRequest.fromJSON(params));
      yield 'status' in answer ? { task: Task.toJSON(answer) } : { message: Message.toJSON(answer) };
      break;
    }
    case 'stream':
      for await (const event of client.sendMessageStream(SendMessageRequest.fromJSON(params))) {
        yield StreamResponse.toJSON(event);
      }
      break;
    case 'subscribe':
      for await (const event of client.resubscribeTask(SubscribeToTaskRequest.fromJSON(params))) {
        yield StreamResponse.toJSON(event);
      }
      break;
    case 'get':
      yield Task.toJSON(await client.getTask(GetTaskRequest.fromJSON(params)));
      break;
    case 'list':
      yield ListTasksResponse.toJSON(await client.listTasks(ListTasksRequest.fromJSON(params)));
      break;
    case 'cancel':
      yield Task.toJSON(await client.cancelTask(CancelTaskRequest.fromJSON(params)));
      break;
    default:
      throw new Error(`there is no command ${command}`);
  }
}

try {
  for await (const result of call(await connect())) {
    print(result);
  }
} catch (error) {
  print({ error: { name: error.name, message: error.message, reason: error.reason } });
}
