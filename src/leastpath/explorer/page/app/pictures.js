"use strict";
// Arithmetic of maps and their drawing on canvases. Nothing here knows the page.
const Pictures = (() => {
  /** Sum over the channels, or one of them: (channels, height, width) -> height · width. */
  function plane(values, channel) {
    const [channels, height, width] = values.shape;
    const size = height * width;
    if (channel !== "all") return values.data.subarray(channel * size, (Number(channel) + 1) * size);
    const sum = new Float32Array(size);
    for (let c = 0; c < channels; c++) for (let i = 0; i < size; i++) sum[i] += values.data[c * size + i];
    return sum;
  }

  function blurLine(source, target, start, stride, length, kernel) {
    const reach = (kernel.length - 1) / 2;
    for (let i = 0; i < length; i++) {
      let sum = 0;
      let weight = 0;
      for (let j = Math.max(-reach, -i); j <= Math.min(reach, length - 1 - i); j++) {
        sum += kernel[j + reach] * source[start + (i + j) * stride];
        weight += kernel[j + reach];
      }
      target[start + i * stride] = sum / weight;
    }
  }

  /** Gaussian blur, one axis after the other. */
  function blur(data, height, width, sigma) {
    const reach = Math.ceil(2.5 * sigma);
    const kernel = Float32Array.from({ length: 2 * reach + 1 }, (_, i) => Math.exp(-((i - reach) ** 2) / (2 * sigma * sigma)));
    const across = new Float32Array(data.length);
    const result = new Float32Array(data.length);
    for (let y = 0; y < height; y++) blurLine(data, across, y * width, 1, width, kernel);
    for (let x = 0; x < width; x++) blurLine(across, result, x, width, height, kernel);
    return result;
  }

  /** Side of the square patches, from the grid's number of rows and columns; those at the edge may be cut. */
  const patchSide = (height, width, [rows, columns]) => Math.max(Math.ceil(height / rows), Math.ceil(width / columns));

  /** Sums over patches: rows · columns. */
  function patchSums(data, height, width, grid) {
    const side = patchSide(height, width, grid);
    const sums = new Float32Array(grid[0] * grid[1]);
    for (let i = 0; i < data.length; i++) {
      const place = Math.floor(Math.floor((i % (height * width)) / width) / side) * grid[1] + Math.floor((i % width) / side);
      sums[place] += data[i];
    }
    return sums;
  }

  /** Draws height × width × 3 bytes. */
  function drawRGB(canvas, bytes, height, width) {
    resize(canvas, height, width);
    const image = canvas.getContext("2d").createImageData(width, height);
    for (let i = 0, j = 0; i < bytes.length; i += 3, j += 4) {
      image.data[j] = bytes[i];
      image.data[j + 1] = bytes[i + 1];
      image.data[j + 2] = bytes[i + 2];
      image.data[j + 3] = 255;
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  // Strips of a few rows or columns are shown stretched: as they are, nobody could see or hit them.
  const shownRatio = (height, width) => Math.max(0.6, Math.min(6, width / height));

  function resize(canvas, height, width) {
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    canvas.style.aspectRatio = shownRatio(height, width);
    canvas.classList.toggle("coarse", Math.max(height, width) < 100 || Math.min(height, width) < 32);
  }

  /**
   * A map over the picture. Signed: its colours over the grey picture, `strength` opaque. Magnitude: the picture
   * itself, dark where the map is weak. field: {data, columns, side}; side is the size of its cells in pixels.
   */
  function drawMap(canvas, picture, field, scale, { signed, strength }) {
    const [height, width] = picture.shape;
    resize(canvas, height, width);
    const image = canvas.getContext("2d").createImageData(width, height);
    const colors = Colors.table();
    const factor = scale > 0 ? 1 / scale : 0;
    const { side, columns } = field;
    const patch = side > 1 ? Int32Array.from({ length: width }, (_, x) => Math.floor(x / side)) : null;
    for (let y = 0, i = 0; y < height; y++) {
      const line = patch ? Math.floor(y / side) * columns : y * width;
      for (let x = 0; x < width; x++, i++) {
        const value = field.data[line + (patch ? patch[x] : x)] * factor;
        if (signed) mixSigned(image.data, picture.data, i, colors, Colors.index(value), strength);
        else mixMagnitude(image.data, picture.data, i, 1 - strength + strength * Math.min(1, Math.abs(value)));
      }
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  function mixSigned(out, picture, i, colors, at, strength) {
    const grey = 0.299 * picture[3 * i] + 0.587 * picture[3 * i + 1] + 0.114 * picture[3 * i + 2];
    for (let c = 0; c < 3; c++) out[4 * i + c] = grey + strength * (colors[at + c] - grey);
    out[4 * i + 3] = 255;
  }

  function mixMagnitude(out, picture, i, light) {
    for (let c = 0; c < 3; c++) out[4 * i + c] = picture[3 * i + c] * light;
    out[4 * i + 3] = 255;
  }

  /** Saves a canvas as PNG, enlarged without smoothing if it is small. */
  function save(canvas, name) {
    const factor = Math.max(1, Math.ceil(448 / Math.max(canvas.width, canvas.height)));
    const [width, ratio] = [canvas.width * factor, shownRatio(canvas.height, canvas.width)];
    const [wide, high] = ratio * canvas.height >= canvas.width ? [Math.round(canvas.height * factor * ratio), canvas.height * factor] : [width, Math.round(width / ratio)];
    const large = make("canvas", { width: wide, height: high });
    const context = large.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(canvas, 0, 0, large.width, large.height);
    large.toBlob((blob) => Dialog.download(blob, `${name}.png`));
  }

  return { plane, blur, patchSide, patchSums, drawRGB, drawMap, save };
})();
