// Types of pykernels.js. The part at the end is generated from the specs of the kernels; whether one
// launches any layout, or those of its recorded plans, is `launches` in manifest.json.

export type DType =
  | "float32" | "float16" | "bfloat16" | "int32" | "uint32" | "int16" | "uint16" | "int8"
  | "uint8" | "int64" | "bool" | "complex64";

/** The dtype of a typed array's elements, by the array's name. */
export interface DTypes {
  Float32Array: "float32";
  Float16Array: "float16";
  Int32Array: "int32";
  Uint32Array: "uint32";
  Int16Array: "int16";
  Uint16Array: "uint16";
  Int8Array: "int8";
  Uint8Array: "uint8";
  BigInt64Array: "int64";
}

/** A typed array of a name. */
export interface Typed<N extends string> extends ArrayBufferView {
  readonly length: number;
  readonly [Symbol.toStringTag]: N;
}

/** A Float16Array, which TypeScript knows in its newest library only. */
export interface HalfArray extends Typed<"Float16Array">, Iterable<number> {
  readonly [index: number]: number;
}

/** What the elements of a dtype are read as: float16 as bits where there is no Float16Array. */
export interface Elements {
  float32: Float32Array;
  float16: HalfArray | Uint16Array;
  bfloat16: Uint16Array;
  int32: Int32Array;
  uint32: Uint32Array;
  int16: Int16Array;
  uint16: Uint16Array;
  int8: Int8Array;
  uint8: Uint8Array;
  int64: BigInt64Array;
  bool: Uint8Array;
  /** Real and imaginary parts in turn. */
  complex64: Float32Array;
}

/** A rule was broken, a plan was not exported, or the device lacks something. */
export class KernelError extends Error {}

/** A GPU buffer with an offset, a shape, strides and a dtype. It owns nothing. */
export class Tensor<D extends DType = DType> {
  /** Offset and strides are bytes; without strides the elements lie in C order. */
  constructor(
    buffer: GPUBuffer,
    shape: readonly number[],
    dtype: D,
    options?: { offset?: number; strides?: readonly number[] | null },
  );
  readonly buffer: GPUBuffer;
  readonly shape: number[];
  readonly dtype: D;
  readonly strides: number[];
  readonly offset: number;
  get size(): number;
  get nbytes(): number;
  /** The same elements with the axes in another order; without an order, reversed. */
  transpose(...axes: number[]): Tensor<D>;
}

/** A checked and prepared call. */
export class Call {
  /** Record into a compute pass of yours. */
  encode(pass: GPUComputePassEncoder): void;
  /** Record and submit; as often as you like. Later errors go to `onerror` and `settled`. */
  run(): this;
  /** Free params and scratch memory; the tensors are yours. */
  destroy(): void;
}

/** What `bodies` and plans may know of a device. */
export interface Caps {
  readonly f16: boolean;
  readonly subgroups: boolean;
  readonly alignment: number;
  readonly max_invocations: number;
  readonly max_workgroup_bytes: number;
  readonly max_binding: number;
  readonly max_groups: number;
  /** The manifest's table. */
  readonly tuning: Readonly<Record<string, unknown>>;
}

/** What a plan sees of a tensor. */
export interface View {
  readonly slot: number;
  readonly dtype: { readonly name: DType; readonly short: string; readonly itemsize: number };
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly offset: number;
  readonly ndim: number;
  readonly size: number;
  readonly nbytes: number;
  readonly contiguous: boolean;
  with_layout(shape: readonly number[], strides: readonly number[]): View;
}

/** One dispatch. */
export interface Step {
  readonly groups: number;
}

/** A body's part in a plan; `given` holds the axes and params that its spec leaves to the plan. */
export interface Body {
  readonly name: string;
  step(
    caps: Caps,
    views: Readonly<Record<string, View | null>>,
    given?: Readonly<Record<string, string | number | boolean>>,
  ): Step;
}

/** Steps of a call, from the views of its tensors by name; `scratch` makes temporary ones. */
export type Plan<Views = Readonly<Record<string, View | null>>> = (
  caps: Caps,
  views: Views,
  scratch: { empty(shape: readonly number[], dtype: DType): View },
) => Step[];

/** The exported kernels on one device. */
export class Kernels {
  constructor(
    device: GPUDevice,
    manifest: Manifest,
    read: (file: string) => string | Promise<string>,
  );
  readonly device: GPUDevice;
  readonly manifest: Manifest;
  readonly caps: Caps;
  /** Called with what validation finds after `run()`; without it, the console has the message. */
  onerror: ((error: KernelError) => void) | null;
  /** Waits for the validation of all runs; rejects with the first error since it was last asked. */
  settled(): Promise<void>;
  /** A tensor of its own buffer with these elements, and their dtype where none is given. */
  tensor<N extends keyof DTypes>(data: Typed<N>, shape?: readonly number[]): Tensor<DTypes[N]>;
  tensor<D extends DType>(data: Typed<string>, shape: readonly number[], dtype: D): Tensor<D>;
  /** A tensor of its own buffer, filled with zeros. */
  empty<D extends DType>(shape: readonly number[], dtype: D): Tensor<D>;
  /** The elements of a contiguous tensor (float16 without Float16Array, and bfloat16, as bits). */
  data<D extends DType>(tensor: Tensor<D>): Promise<Elements[D]>;
}

/** manifest.json; manifest.schema.json says more. */
export interface Manifest {
  readonly format: 2;
  readonly generator: string;
  readonly license: string;
  readonly version: string;
  /** A hash of the contents: module, manifest and texts belong together where it is the same. */
  readonly build: string;
  readonly dialect: "naga" | "tint";
  readonly grid: { readonly max: number; readonly row: number };
  readonly kernels: Readonly<Record<string, unknown>>;
  readonly bodies: Readonly<Record<string, { readonly file?: string }>>;
  readonly files: Readonly<Record<string, string>>;
}

/** The kernels beside this module, on a device; `base` is the folder of manifest.json. */
export function open(device: GPUDevice, options?: { base?: string | URL }): Promise<Kernels>;

// -- generated from the specs ---------------------------------------------------------------------
