import { readSse } from "./sse.js";

const BASE = "/a2a/api";

/** What the daemon refused, or that it could not be reached (`status` 0). */
export class ApiError extends Error {
  /**
   * @param {string} message the daemon's own words; empty where it was not reached
   * @param {number} status
   * @param {object} body the answer; `errors` in it is `{field: [text]}`
   */
  constructor(message, status, body = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.body = body;
    this.errors = body.errors ?? {};
  }
}

/**
 * Read something of the control API.
 * @param {string} path below `/a2a/api`, such as `/task`
 * @param {Record<string, unknown>} [params] its query; what is null, undefined or empty is left out
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>} the JSON; throws {@link ApiError}
 */
export async function get(path, params = {}, { signal } = {}) {
  const response = await reach(address(path, params), { signal });
  return bodyOf(response);
}

/**
 * Do something.
 * @param {string} action such as `inbound.create`
 * @param {object} [fields]
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>} the answer, `{ok: true, message, ...}`; throws {@link ApiError}
 */
export async function act(action, fields = {}, { signal } = {}) {
  return bodyOf(await post(action, fields, "application/json", signal));
}

/**
 * Do something that tells its progress (`inbound.sendTest`, `outbound.call`).
 * @param {string} action
 * @param {object} [fields]
 * @param {{signal?: AbortSignal}} [options]
 * @returns {AsyncGenerator<{event: string, id: string, data: any, raw: string}>} `raw` is the data as it came; the last
 * event is `result`, the answer's body; one that is not `ok` is thrown as {@link ApiError} instead, and so is a stream
 * that ends without it
 */
export async function* actStream(action, fields = {}, { signal } = {}) {
  const response = await post(action, fields, "text/event-stream", signal);
  if (!isStream(response)) {
    const data = await bodyOf(response);
    yield { event: "result", id: "", data, raw: JSON.stringify(data) };
    return;
  }
  for await (const event of eventsOf(response)) {
    if (event.event === "result" && !event.data.ok) throw failure(event.data, 409);
    yield event;
    if (event.event === "result") return;
  }
  throw new ApiError("", 0);
}

/**
 * Follow a stream that is read, such as `/task/events`, until it ends.
 * @param {string} path
 * @param {Record<string, unknown>} [params]
 * @param {{signal?: AbortSignal, lastEventId?: string}} [options]
 * @returns {AsyncGenerator<{event: string, id: string, data: any, raw: string}>} throws {@link ApiError}
 */
export async function* follow(path, params = {}, { signal, lastEventId } = {}) {
  const headers = { Accept: "text/event-stream", ...(lastEventId ? { "Last-Event-ID": lastEventId } : {}) };
  const response = await reach(address(path, params), { headers, signal });
  if (!isStream(response)) {
    await bodyOf(response);
    return;
  }
  yield* eventsOf(response);
}

/** The address of something below the control API. @param {string} path @param {Record<string, unknown>} [params] */
export function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  return query.size ? `${BASE}${path}?${query}` : `${BASE}${path}`;
}

function post(action, fields, accept, signal) {
  return reach(BASE, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: accept },
    body: JSON.stringify({ ...fields, action }),
    signal,
  });
}

async function reach(url, options) {
  try {
    return await fetch(url, { cache: "no-store", credentials: "omit", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("", 0);
  }
}

const isStream = (response) =>
  response.ok && (response.headers.get("Content-Type") ?? "").startsWith("text/event-stream");

async function bodyOf(response) {
  let body;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(response.ok ? "" : `HTTP ${response.status}`, response.ok ? 0 : response.status);
  }
  if (!response.ok || body?.ok === false) throw failure(body, response.status);
  return body;
}

const failure = (body, status) => new ApiError(body?.message ?? `HTTP ${status}`, status, body ?? {});

async function* eventsOf(response) {
  try {
    for await (const { event, id, data } of readSse(response.body)) yield { event, id, data: JSON.parse(data), raw: data };
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError("", 0);
  }
}
