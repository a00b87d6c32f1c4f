// Serves Perfetto's trace processor on a Unix socket: node perfetto_engine.js DIRECTORY SOCKET
//
// DIRECTORY holds a build of Perfetto's user interface. Its engine, WebAssembly in a web worker, takes the bytes of
// requests from a port and answers on it; here the port is the socket.
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const vm = require("node:vm");

const [directory, socketPath] = process.argv.slice(2);
const worker = {
  console: { ...console, log: () => {}, warn: () => {} },
  location: { href: "http://localhost/" },
  crypto, performance, setTimeout, TextDecoder, TextEncoder, URL,
  WorkerGlobalScope: class {},
  XMLHttpRequest: class {
    open(_method, url) { this.file = path.join(directory, path.basename(url)); }
    send() { this.response = fs.readFileSync(this.file); }
  },
};
worker.self = worker;
vm.createContext(worker);
const Bytes = vm.runInContext("Uint8Array", worker);
vm.runInContext(fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8"), worker);

const server = net.createServer((socket) => {
  const port = { postMessage: (bytes) => socket.write(Buffer.from(bytes)) };
  worker.onmessage({ data: port });
  socket.on("data", (bytes) => port.onmessage({ data: new Bytes(bytes) }));
  socket.on("close", () => process.exit(0));
});
// the module is made by now; what waits for it runs before this
setTimeout(() => server.listen(socketPath, () => console.log("ready")));
