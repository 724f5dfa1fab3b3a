// @ts-check
/** Commands as a user would type them in a shell. */

/**
 * Join the words of a `raftka` command; null and undefined are left out.
 * @param {...(string | number | null | undefined)} words command("topics", "delete", name)
 */
export const command = (...words) => shell("raftka", ...words);

/**
 * Join the words of another program's command.
 * @param {...(string | number | null | undefined)} words
 */
export const shell = (...words) =>
  words
    .filter((word) => word !== null && word !== undefined)
    .map(quoted)
    .join(" ");

/** @param {string | number} word */
const quoted = (word) => {
  const text = String(word);
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
};
