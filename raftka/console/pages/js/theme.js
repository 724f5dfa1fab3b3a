// Before the first paint: the theme that the user chose. Without a choice the system's counts.
const chosen = localStorage.getItem("raftka-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
