// The page is a client of the native API. Its half of the sign-in is kept here; the other one is a
// cookie that no script can read.
const api = '/api/v1', kept = 'arbor-key';
const said = {
  401: 'Sign in with the address that the server printed when it began, or with a token.',
  404: `The native API is not served at ${api}.`,
};
const at = (id) => document.getElementById(id);

async function call(method, path, body) {
  const headers = {};
  const key = localStorage.getItem(kept);
  if (key) headers['Arbor-CSRF'] = key;
  if (body) headers['Content-Type'] = 'application/json';
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: 'no-store' });
  const value = await answer.json().catch(() => null);
  if (answer.ok) return value;
  const words = path.startsWith(api) ? said[answer.status] : undefined;
  throw Object.assign(new Error(words ?? value?.detail ?? `The server answered ${answer.status}.`), { status: answer.status });
}

function element(kind, ...content) {
  const made = document.createElement(kind);
  made.append(...content); // texts stay texts
  return made;
}

async function sessions(after) {
  const page = await call('GET', `${api}/sessions` + (after ? `?after=${encodeURIComponent(after)}` : ''));
  at('sessions').append(...page.sessions.map((s) =>
    element('tr', ...[s.id, s.title, s.state ?? '', s.active, s.seq, new Date(s.updated).toLocaleString()].map((text) => element('td', text)))));
  at('more').hidden = !page.next;
  at('more').onclick = () => tell(() => sessions(page.next));
}

async function show() {
  const me = await call('GET', `${api}/me`);
  at('who').textContent = [me.user, ...me.rights].join(' · ');
  at('doors').replaceChildren(...me.doors.map((door) => element('li', door)));
  at('sessions').replaceChildren();
  at('in').hidden = true;
  at('all').hidden = false;
  at('out').hidden = !localStorage.getItem(kept);
  await sessions();
}

function signedOut() {
  localStorage.removeItem(kept);
  at('in').hidden = false;
  at('all').hidden = at('out').hidden = true;
  at('who').textContent = '';
}

async function signIn(secret) {
  localStorage.setItem(kept, (await call('POST', '/inspect/sign-in', secret)).key);
  await show();
}

// tell does something, and says what went wrong.
async function tell(what) {
  at('said').textContent = '';
  try {
    await what();
  } catch (error) {
    if (error.status === 401) signedOut();
    at('said').textContent = error.message;
  }
}

at('in').onsubmit = (event) => {
  event.preventDefault();
  const token = at('token').value;
  at('token').value = '';
  tell(() => signIn({ token }));
};
at('out').onclick = () => tell(() => call('POST', '/inspect/sign-out').then(signedOut));

const code = new URLSearchParams(location.hash.slice(1)).get('code');
if (code) history.replaceState(null, '', location.pathname + location.search); // it works once
tell(() => (code ? signIn({ code }) : show()));
