// Runs before the first paint, so that a chosen colour theme does not flash. Not a module on purpose.
try {
  const theme = JSON.parse(localStorage.getItem("askless.theme"));
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is off: the system's colours are used.
}
