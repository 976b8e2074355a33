// Preact and htm, by the version that is vendored.

export {
  createContext,
  html,
  render,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "../vendor/htm-3.1.1/standalone.module.js";
