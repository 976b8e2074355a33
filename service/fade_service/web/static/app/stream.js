// Server-sent events that survive restarts of the server, sleeping laptops and hidden tabs.

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5000;
/** Two and a half heartbeats: a connection that says nothing for so long is dead, whatever the system thinks. */
const SILENCE_MS = 25_000;

/**
 * Follows a stream until the returned function is called.
 *
 * `address()` is asked before each connection, so that it can name the last revision seen. `events` maps an event's name to what
 * takes its data. `onState` hears {name: "connecting" | "live" | "paused"}, or {name: "reconnecting", since: Date} at each attempt
 * that failed: an EventSource does not tell why, so whoever wants to know asks the server something else.
 * A hidden tab holds no connection: browsers allow a host only a few.
 */
export function follow({ address, events, onState }) {
  let source = null;
  let timer = 0;
  let silence = 0;
  let wait = FIRST_WAIT_MS;
  let since = null;

  function open() {
    source = new EventSource(address());
    source.onopen = () => {
      wait = FIRST_WAIT_MS;
      since = null;
      onState({ name: "live" });
    };
    source.onerror = lost;
    source.addEventListener("alive", listen);
    for (const [name, take] of Object.entries(events)) {
      source.addEventListener(name, (event) => {
        listen();
        take(JSON.parse(event.data));
      });
    }
  }

  function listen() {
    clearTimeout(silence);
    silence = setTimeout(lost, SILENCE_MS);
  }

  function lost() {
    close();
    since ??= new Date();
    onState({ name: "reconnecting", since });
    timer = setTimeout(open, wait * (0.8 + 0.4 * Math.random()));
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  }

  function close() {
    clearTimeout(timer);
    clearTimeout(silence);
    source?.close();
    source = null;
  }

  function turn() {
    close();
    if (document.hidden) {
      onState({ name: "paused" });
    } else {
      wait = FIRST_WAIT_MS;
      onState({ name: "connecting" });
      open();
    }
  }

  document.addEventListener("visibilitychange", turn);
  turn();
  return () => {
    document.removeEventListener("visibilitychange", turn);
    close();
  };
}
