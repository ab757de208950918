// A model library that uses OpenCV, in the place of which our programs have an empty library.
namespace cv {
void imread();
}

extern "C" int embers_model_abi() {
  cv::imread();
  return 0;
}
