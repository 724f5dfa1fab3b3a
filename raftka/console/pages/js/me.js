// @ts-check
/** The session as the console knows it: user, and which switches are on. */
import { api } from "./api.js";

/** Buttons that change something are not shown when `read_only`. */
export const me = {
  /** @type {string | null} */
  user: null,
  login_needed: false,
  read_only: false,
  shows_records: true,
  /** @type {string[]} */
  masked: [],
  can_control: false,
  has_sql: false,
  version: "",
};

export async function loadMe() {
  Object.assign(me, await api.get("/api/me"));
  return me;
}
