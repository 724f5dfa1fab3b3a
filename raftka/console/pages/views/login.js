// @ts-check
/** The login: name and password of the cluster's users, because the console logs in at the brokers with them. */
import { api } from "../js/api.js";
import { Element } from "../js/element.js";
import { html } from "../js/render.js";

class LoginView extends Element {
  state = { busy: false, failure: "" };

  template() {
    const { busy, failure } = this.state;
    return html`
      <form class="login card" @submit=${(/** @type {SubmitEvent} */ event) => this.logIn(event)}>
        <p class="brand"><img src="/icon.svg" alt="" width="36" height="36" />raftka</p>
        <h1>Log in</h1>
        <p class="muted">With the name and password that your Kafka clients use.</p>
        <label>User<input name="user" autocomplete="username" required autofocus /></label>
        <label
          >Password<input name="password" type="password" autocomplete="current-password" required
        /></label>
        <p class="field-error" role="alert">${failure}</p>
        <button class="primary" ?disabled=${busy}>${busy ? "Logging in" : "Log in"}</button>
      </form>
    `;
  }

  /** @param {SubmitEvent} event */
  async logIn(event) {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    this.update({ busy: true, failure: "" });
    try {
      await api.post("/api/login", {
        user: form.get("user"),
        password: form.get("password"),
      });
      this.emit("logged-in");
    } catch (failure) {
      this.update({ busy: false, failure: /** @type {Error} */ (failure).message });
    }
  }
}

LoginView.define("login-view");
