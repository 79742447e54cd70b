"use strict";
(async () => {
  const bundle = document.getElementById("bundle");
  const state = bundle ? JSON.parse(bundle.textContent).state : await (await fetch("api/state")).json();
  delete state.input;
  document.getElementById("state").textContent = JSON.stringify(state, null, 1);
})();
