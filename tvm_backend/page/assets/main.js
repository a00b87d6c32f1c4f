// What the page was made of: JSON, packed by gzip, in base64.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

async function main() {
  const place = document.getElementById("page");
  document.body.append(tip);
  try {
    const data = await unpacked(document.getElementById("data").textContent);
    place.replaceChildren(data.search ? searchView(data.search) : networks(data.networks));
  } catch (error) {
    place.replaceChildren(el("p", { class: "warning" }, `This page could not be drawn: ${error}`));
    throw error;
  }
  document.body.dataset.drawn = "";
}
main();
