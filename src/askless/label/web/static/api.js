// Talking to the server: JSON both ways, and errors that carry the server's own code and text.

/** What the server refused (status >= 400), or status 0 when it could not be reached. */
export class ApiError extends Error {
  constructor(status, error) {
    super(error.message || `status ${status}`);
    this.status = status;
    this.code = error.code || "";
    this.details = error;
  }

  /** Trying again later may help: no server, an error inside the server, a full disk. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

const PATIENCE = 20_000; // ms; a server that says nothing for so long counts as gone

async function call(path, options) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), PATIENCE);
  try {
    const reply = await fetch(path, { cache: "no-store", credentials: "same-origin", signal: stop.signal, ...options });
    const body = await reply.json().catch(() => null);
    if (!reply.ok) throw new ApiError(reply.status, (body && body.error) || {});
    if (body === null) throw new ApiError(0, { code: "unreadable", message: "the reply is not JSON" });
    return body;
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError(0, { code: "unreachable", message: String(error.message || error) });
  } finally {
    clearTimeout(timer);
  }
}

export const get = (path) => call(path, {});

export const post = (path, body, { keepalive = false } = {}) =>
  call(path, {
    method: "POST", keepalive, body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", "X-Askless": "1" },
  });

export const imageAddress = (id, size) => `/image/${id}?size=${size}`;

/** A random id; randomUUID is missing where the page is served over plain http to another computer. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
