// Texts on their way between page and server: gzip, then base64, as playground/packing.py does.

const through = (bytes, stream) => new Response(new Blob([bytes]).stream().pipeThrough(stream));

export async function pack(text) {
  const bytes = new Uint8Array(await through(text, new CompressionStream("gzip")).arrayBuffer());
  let binary = "";
  for (let i = 0; i < bytes.length; i += 32768) binary += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(binary);
}

export async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  return through(bytes, new DecompressionStream("gzip")).text();
}
