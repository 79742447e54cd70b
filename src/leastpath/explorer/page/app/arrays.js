"use strict";
// Arrays as the server sends them: {dtype, shape, data in base64, little endian} <-> {shape, data: typed array}.
const Arrays = (() => {
  const TYPES = { float32: Float32Array, uint8: Uint8Array };

  function decode(packed) {
    if (!packed) return null;
    const text = window.atob(packed.data);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return { shape: packed.shape, data: new TYPES[packed.dtype](bytes.buffer) };
  }

  function encodeBytes(data, shape) {
    let text = "";
    for (let i = 0; i < data.length; i += 8192) text += String.fromCharCode(...data.subarray(i, i + 8192));
    return { dtype: "uint8", shape, data: window.btoa(text) };
  }

  /** Row k of the first axis. */
  function row(array, k) {
    const size = array.data.length / array.shape[0];
    return array.data.subarray(k * size, (k + 1) * size);
  }

  /** The size below which `share` of the magnitudes lie: a few extreme pixels must not pale all others. */
  function largest(values, share = 1) {
    const sizes = Float32Array.from(values, Math.abs).sort();
    return sizes[Math.max(0, Math.min(sizes.length - 1, Math.ceil(share * sizes.length) - 1))] || 0;
  }

  /** All arrays in an answer as nested lists, with the seven digits that they have. Pictures (uint8) are left out. */
  function inPlainNumbers(value) {
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(inPlainNumbers);
    if (value.dtype === "uint8") return undefined; // JSON.stringify leaves it out
    if (value.dtype) return nested(Array.from(decode(value).data, (one) => Number(one.toPrecision(7))), value.shape);
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, inPlainNumbers(inner)]));
  }

  function nested(list, [length, ...inner]) {
    if (!inner.length) return list;
    const size = list.length / length;
    return Array.from({ length }, (_, i) => nested(list.slice(i * size, (i + 1) * size), inner));
  }

  return { decode, encodeBytes, row, largest, inPlainNumbers };
})();
