import RFB from '/novnc/core/rfb.js';

const element = (id) => document.getElementById(id);
const body = document.body;

// What the server says with the websocket's private codes; see bridge.go.
const codeProtocol = 4001, codeTooMany = 4002;

let rfb = null;
let controlling = false;
let mayControl = false;
let failures = 0; // in a row
let retry = 0; // the timer of the next attempt

// A link from the terminal that is opened where somebody is signed in already.
function dropHash() {
  if (location.hash) history.replaceState(null, '', location.pathname);
}
addEventListener('hashchange', dropHash);
dropHash();

function show(state, text) {
  body.dataset.state = state;
  element('status').textContent = text;
  element('lost').hidden = state !== 'lost';
  element('control').disabled = state !== 'connected' || !mayControl;
  element('clipboard').disabled = state !== 'connected';
}

function showConnected() {
  show('connected', controlling ? 'You have mouse and keyboard' : mayControl ? 'Watching' : 'Watching only');
}

async function ask(path, options) {
  const answer = await fetch(path, options);
  if (answer.status === 401) location.reload(); // to sign in
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function connect() {
  clearTimeout(retry);
  if (rfb) return;
  show('connecting', 'Connecting');
  try {
    const state = await ask('/state');
    document.title = state.name;
    element('name').textContent = state.name;
    mayControl = !state.viewOnly;
    element('clipboard').hidden = !state.clipboard;
    element('clipboard-send').hidden = state.viewOnly;
  } catch {
    lost('loupe does not answer. Its desktop may have been stopped.', true);
    return;
  }
  const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
  const socket = new WebSocket(`${scheme}//${location.host}/socket`, ['binary']);
  let ending = { code: 0, reason: '' };
  socket.addEventListener('close', (event) => { ending = event; });
  const view = rfb = new RFB(element('screen'), socket, { shared: true });
  view.scaleViewport = true;
  view.background = 'transparent';
  view.qualityLevel = 9;
  view.compressionLevel = 1;
  view.viewOnly = true;
  view.addEventListener('connect', () => {
    failures = 0;
    control(false);
  });
  view.addEventListener('disconnect', () => {
    rfb = null;
    controlling = false;
    // noVNC may tell before the websocket does.
    setTimeout(() => {
      const text = ending.reason || 'The connection was lost.';
      lost(text, ending.code !== codeProtocol && ending.code !== codeTooMany);
    });
  });
}

function lost(text, again) {
  control(false);
  showClipboard(false);
  failures++;
  if (again && failures <= 6) {
    const seconds = Math.min(2 ** (failures - 1), 15);
    text += ` Trying again in ${seconds} s.`;
    retry = setTimeout(connect, seconds * 1000);
  }
  element('lost-text').textContent = text;
  show('lost', 'Not connected');
}

function control(on) {
  controlling = on && mayControl && rfb !== null;
  body.className = controlling ? 'controlling' : 'watching';
  const button = element('control');
  button.setAttribute('aria-pressed', controlling);
  button.textContent = controlling ? 'Give control back' : 'Take control';
  if (rfb) {
    // noVNC releases the keys that are down when the window loses the focus, and sends
    // nothing once it is told to only watch.
    if (!controlling) window.dispatchEvent(new Event('blur'));
    rfb.viewOnly = !controlling;
    rfb.showDotCursor = controlling;
    if (controlling) rfb.focus();
    showConnected();
  }
}

function showClipboard(open) {
  element('clipboard-panel').hidden = !open;
  element('clipboard').setAttribute('aria-expanded', open);
  if (open) getClipboard();
  else if (controlling) rfb?.focus();
}

async function getClipboard() {
  const field = element('clipboard-text');
  try {
    field.value = (await ask('/clipboard')).text;
    note('');
  } catch {
    note('The desktop\u2019s clipboard cannot be read.');
  }
  field.focus();
}

async function setClipboard() {
  const answer = await fetch('/clipboard', { method: 'POST', body: element('clipboard-text').value }).catch(() => null);
  note(answer?.ok ? 'It can be pasted on the desktop now.' : await answer?.text() ?? 'loupe does not answer.');
}

function note(text) { element('clipboard-note').textContent = text; }

async function copy(text, field) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    field.select();
    document.execCommand('copy');
  }
}

element('control').addEventListener('click', () => control(!controlling));
element('reconnect').addEventListener('click', () => { failures = 0; connect(); });
element('clipboard').addEventListener('click', () => showClipboard(element('clipboard-panel').hidden));
element('clipboard-get').addEventListener('click', getClipboard);
element('clipboard-send').addEventListener('click', setClipboard);
element('clipboard-copy').addEventListener('click', async () => {
  const field = element('clipboard-text');
  await copy(field.value, field);
  note('Copied to this machine.');
});
element('invite').addEventListener('click', async () => {
  try {
    const { password } = await ask('/invite', { method: 'POST' });
    element('invite-link').value = `${location.origin}/#${password}`;
    element('invite-dialog').showModal();
    element('invite-link').select();
  } catch {
    element('status').textContent = 'loupe does not answer';
  }
});
element('invite-copy').addEventListener('click', () => {
  const field = element('invite-link');
  copy(field.value, field);
});
element('full').addEventListener('click', async () => {
  await element('screen').requestFullscreen();
  // Where the browser allows it, keys such as Escape and Alt+Tab go to the desktop too.
  try { await navigator.keyboard?.lock(); } catch { /* it does not */ }
  if (controlling) rfb?.focus();
});
document.addEventListener('fullscreenchange', () => {
  if (!document.fullscreenElement) navigator.keyboard?.unlock?.();
});

connect();
