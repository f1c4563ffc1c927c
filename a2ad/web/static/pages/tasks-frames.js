/**
 * A task after one more of its frames. Nothing of the task that is given changes.
 * @param {object} task as `GET /a2a/api/task` has it
 * @param {{task?: object, statusUpdate?: object, artifactUpdate?: object}} frame an A2A StreamResponse
 * @returns {object} an artifact that more may be added to has `open: true`
 */
export function withFrame(task, frame) {
  if (frame.artifactUpdate) return { ...task, artifacts: withArtifact(task.artifacts ?? [], frame.artifactUpdate) };
  if (frame.statusUpdate) return withStatus(task, frame.statusUpdate);
  if (!frame.task) return task;
  const { status, artifacts = [], history = task.history, metadata = task.metadata } = frame.task;
  return { ...task, status, state: status.state, artifacts, history, metadata };
}

function withStatus(task, { status, metadata }) {
  const known = (message) => task.history?.some((each) => each.messageId === message.messageId);
  const history = status.message && !known(status.message) ? [...(task.history ?? []), status.message] : task.history;
  return { ...task, status, state: status.state, history, metadata: { ...task.metadata, ...metadata } };
}

function withArtifact(artifacts, { artifact, append = false, lastChunk = false }) {
  const at = artifacts.findIndex((each) => each.artifactId === artifact.artifactId);
  const whole = append && at >= 0
    ? { ...artifacts[at], parts: joined(artifacts[at].parts, artifact.parts ?? []) }
    : { ...artifact, parts: artifact.parts ?? [] };
  whole.open = append && !lastChunk;
  return at < 0 ? [...artifacts, whole] : artifacts.with(at, whole);
}

/** Streamed text comes in pieces: neighbours are one text. */
function joined(parts, more) {
  const [last, first] = [parts.at(-1), more[0]];
  if (!last || !first || !isPlain(last) || !isPlain(first)) return [...parts, ...more];
  return [...parts.slice(0, -1), { text: last.text + first.text }, ...more.slice(1)];
}

const isPlain = (part) => typeof part.text === "string" && Object.keys(part).length === 1;
