// A run's series and message, kept up to date by the stream of its events.

import { address, get, mayPass, RETRY_MS } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./lib.js";
import { extended, pointCount } from "./series.js";
import { follow } from "./stream.js";
import { bounds, seriesQuery } from "./view.js";

const MOST_POINTS = 1500;
/** Ten redraws a second are as good as any. */
const REDRAW_MS = 100;

/**
 * {message, series, problem, connection, busy, refresh, learn}: the Run message, the series of the view, why either could not be had,
 * the state of the stream, whether other points are on their way, what asks for the message anew, and what takes one. `message` and `series` are null
 * at first, and are asked for until they are there: a run may be made only after its page was opened, and be deleted and made
 * again. A component that shows another run or branch is another component (give it a key).
 */
export function useRunData(project, run, branch, view) {
  const [message, setMessage] = useState(null);
  const [series, setSeries] = useState(null);
  const [problem, setProblem] = useState(null);
  const [connection, setConnection] = useState({ name: "connecting" });
  const [busy, setBusy] = useState(false);
  const live = useRef({ series: null, asked: null, pieces: [], during: [], timer: 0, retry: 0, uid: "" }).current;
  live.view = view;

  const redraw = useCallback(() => {
    live.timer = 0;
    if (!live.pieces.length) return;
    live.series = live.pieces.reduce((series, piece) => withPiece(series, piece, live.view), live.series);
    live.pieces = [];
    setSeries(live.series);
    if (pointCount(live.series) > MOST_POINTS && !live.asked) load();
  }, []);

  const load = useCallback(async () => {
    live.asked?.abort();
    clearTimeout(live.retry);
    const own = (live.asked = new AbortController());
    const ask = (query) => get(["runs", project, run, "series"], query, own.signal);
    live.during = [];
    setBusy(true);
    try {
      if (live.view.kind === "newest" && !live.series?.head) live.series = withHead(await ask({ branch, points: 2 }));
      live.series = withHead(await ask(seriesQuery(live.view, branch, live.series?.head)));
      live.pieces = live.during; // they came while the answer was on its way, and may be newer
      setSeries(live.series);
      setProblem(null);
      redraw();
    } catch (error) {
      if (live.asked !== own) return;
      setProblem(error);
      if (isGone(error) && live.series) live.series = { ...live.series, head: 0 }; // if it is made again, it starts anew
      if (isGone(error) || mayPass(error)) live.retry = setTimeout(load, RETRY_MS);
    } finally {
      if (live.asked === own) {
        live.asked = null;
        setBusy(false);
      }
    }
  }, []);

  const refresh = useCallback(async () => {
    try {
      setMessage(await get(["runs", project, run]));
    } catch (error) {
      if (!isGone(error) && !mayPass(error)) setProblem(error);
      if (isGone(error) && live.series) load(); // it says so, and again until the run is there
    }
  }, []);

  useEffect(() => {
    load();
    return () => {
      live.asked?.abort();
      clearTimeout(live.retry);
    };
  }, [JSON.stringify(view)]);

  useEffect(() => {
    refresh();
  }, []);

  const ready = series !== null;
  useEffect(() => {
    if (!ready) return undefined;
    const close = follow({
      address: () => address(["events"], { project, run, branch, after: live.series.head }),
      events: {
        observations: (piece) => {
          live.pieces.push(piece);
          if (live.asked) live.during.push(piece);
          live.timer ||= setTimeout(redraw, REDRAW_MS);
        },
        run: (changed) => {
          setMessage(changed);
          const other = live.uid && changed.uid !== live.uid; // deleted and made again while the stream was away
          live.uid = changed.uid;
          if (other || Number(changed.config_revision) !== live.series.config_revision) load(); // for its mark, at a revision that is drawn
        },
        resync: load,
      },
      onState: (next) => {
        setConnection(next);
        if (next.name === "reconnecting") refresh(); // the server may be away, the login over, or the run gone
      },
    });
    return () => {
      clearTimeout(live.timer);
      close();
    };
  }, [ready]);

  return { message, series, problem, connection, busy, refresh, learn: setMessage };
}

/** The run was deleted, or nobody has made it yet. */
export const isGone = (error) => error.reason === "RUN_NOT_FOUND";

/** `head` is the line's newest revision, wherever the view ends. */
const withHead = (series) => ({ ...series, head: series.newest?.revision ?? series.last_revision });

function withPiece(series, piece, view) {
  const head = Math.max(series.head, piece.last_revision);
  const newest = piece.newest ?? series.newest;
  if (view.kind === "range" && piece.first_revision > view.to) return { ...series, head, newest };
  return { ...extended(series, piece, bounds(view, head)[0]), head, newest };
}
